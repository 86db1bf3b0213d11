/* The kernel interface (KNI) has left DPDK; capsule needs its names to compile and never gets one. */
struct rte_kni;
struct rte_kni_ops {
    uint16_t port_id;
    int (*change_mtu)(uint16_t port, unsigned mtu);
    int (*config_network_if)(uint16_t port, uint8_t up);
    int (*config_mac_address)(uint16_t port, uint8_t mac[]);
    int (*config_promiscusity)(uint16_t port, uint8_t on);
    int (*config_allmulticast)(uint16_t port, uint8_t on);
};
struct rte_kni_conf {
    char name[32];
    uint32_t core_id;
    uint16_t group_id;
    unsigned mbuf_size;
    uint8_t force_bind;
    uint8_t mac_addr[RTE_ETHER_ADDR_LEN];
    uint16_t mtu;
};
int rte_kni_init(unsigned most);
void rte_kni_close(void);
struct rte_kni *rte_kni_alloc(struct rte_mempool *, const struct rte_kni_conf *, struct rte_kni_ops *);
int rte_kni_release(struct rte_kni *);
int rte_kni_handle_request(struct rte_kni *);
unsigned rte_kni_rx_burst(struct rte_kni *, struct rte_mbuf **, unsigned);
unsigned rte_kni_tx_burst(struct rte_kni *, struct rte_mbuf **, unsigned);
const char *rte_kni_get_name(const struct rte_kni *);
